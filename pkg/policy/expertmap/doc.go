// Package expertmap keeps expert maps and finds the one that foretells which experts a
// row will need: the Expert Map Store and Matcher of fMoE (arXiv:2502.05370, §4).
//
// An expert map is what the gates said of one row in one step: for each layer with
// experts the probabilities of all J of them, the softmax before the choice of the k
// best. A row of a batch has a map of its own. Beside it stands the row's embedding, the
// output of the model's embedding layer.
//
// Layers count from 1 here, and only those with experts, as in the paper; d is the
// prediction distance.
//
// # Search
//
//	layers 1 … d      the map whose embedding is the most similar (Search.Embedding)
//	layer l+d         the map whose layers 1 … l are the most similar (Search.Layer)
//
// Both similarities are cosines. A token that was there before is found by its bits,
// without a product. Of equally similar maps the one counts that was added
// last: it is the likelier to be of the same text. A trajectory's products are kept from
// layer to layer, so that a layer costs C·J multiplications and not C·l·J; a map that
// is replaced meanwhile is computed anew. Products are chains of kernels/cpu, their
// sums over layers are float64 by ascending layer, so that a search gives the same bits
// however it came about, and a map is similar to itself by exactly 1.
//
// A search counts the layers that it has been told of. A gate whose message was lost is
// left out on both sides of the cosine.
//
// # Selection
//
// The less similar a map is, the more of its experts are worth fetching: Select takes
// the most probable ones until they reach δ = clip(1 − score, 0, 1), at least k.
//
// # Tenants
//
// A decode row's embedding is its token, so a store is prompt text. Each tenant has
// maps of its own, with room of its own: what others add or forget changes none of its
// results. With Settings.Shared all tenants search one set of maps, of which each still
// has an owner, for Forget.
//
// # Concurrency
//
// A Store is like a map of Go: any number of goroutines may search it, each with a Search
// of its own, while none adds, forgets or restores.
package expertmap
