// Package sps foretells which experts the rows of a prompt will choose by what rows of similar
// prompts chose: the Similar Prompts Searching of Remoe (section IV-B, algorithm 1). It
// predicts for a whole prompt before its first row is computed; package predict's others
// predict some layers ahead of rows that are under way.
//
//	tokens ─Vector─▶ vector ─Search─▶ α similar prompts ─Mean─▶ activation
//
// A prompt's activation is a matrix (layers, experts): of the prompt's routed rows in a layer
// the share of each expert, so that each layer sums to 1.
//
// # Similarity
//
// The soft cosine of two prompts (eq. 11) is a form of their tokens' Gram matrix. It equals the
// cosine of the sums of their tokens' unit embeddings, so that a prompt is kept as one vector
// of length 1, and a comparison is one product.
//
// Three things are ours and not the paper's, each a setting: searches of several leaves (Leaves), vectors
// beside their mean (Centred), and a part of the mean of all prompts in what is foretold (Blended).
//
// # Tree
//
// A leaf has at most β prompts; one that gets more is divided among up to Branch children by
// k-medoids: medoids begin by a roulette wheel, and each group's medoid is the prompt whose
// distances to the others sum to the least. With d = (|a|² + |b|²)/2 - a·b, which is 1 less the
// similarity for vectors of length 1, that sum needs the group's total alone, so that an update
// costs one product a prompt. Prompts that no medoid tells apart stay in one leaf.
//
// A search goes from the root to the child whose medoid is the most similar, and ends in a leaf
// with the leaf's best α. A leaf with fewer is filled from its siblings, the most similar
// first, and then from those of the levels above.
//
// Save writes prompts and tree, Load reads them again: a store goes on as the one that was saved.
//
// A Store is like a map of Go: any number of goroutines may search it while none adds.
package sps
