// Package united reads and writes united experts: stand-ins that were distilled from groups of
// a model's routed experts, in a file for each way (how many experts a group has).
//
// A file is in the safetensors format. Group g of layer l has the tensors
//
//	layers.l.united.g.gate_proj.weight (F, D), …up_proj.weight (F, D), …down_proj.weight (D, F)
//
// in bf16, the shape of the layer's own experts, so that each can be loaded alone by its bytes.
// The metadata say of which model they are, how experts are grouped (expert id / way, rounded
// down, or as the table says), of which data they were made, and what each costs: the error on texts that were held
// out, beside those of dropping the rows and of averaged weights.
//
// A group whose experts no row chose has no united expert: its experts run themselves.
package united
