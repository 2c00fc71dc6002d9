// Package upcycle makes a Mixture-of-Experts checkpoint of a dense one, as the
// Remoe and BO/ODS papers do with GPT-2, BERT and BERT2BERT: each layer's
// feed-forward network becomes experts that are its copies with a little noise,
// and a random gate. Everything else stays.
//
// plan.go decides which tensors there will be; noise.go makes their elements
// piece by piece, each a function of seed, name and place; write.go writes them.
// Neither the model nor a tensor of it is ever whole in memory.
package upcycle
