// Package gate routes: it computes a layer's router logits for hidden rows,
// chooses the experts, and sends the rows to the functions that hold them, in
// as many messages as a function has warm replicas.
package gate
