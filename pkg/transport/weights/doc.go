// Package weights keeps models in the JetStream object store: each model in a
// bucket of its own, each piece of it in an object, and last the manifest.
//
// The layout is that of NATS object stores, so the nats command line lists and
// fetches objects: chunks on $O.<bucket>.C.<key>, what is known of an object on
// $O.<bucket>.M.<name>. Unlike there the key of the chunks follows from what the
// object holds (digest.Object), so an interrupted push finds what is whole,
// and replaces what is not.
//
// A reader asks the server first whether all chunks of an object are there, and
// allocates no more than is stored for the model; then it follows them within a bound of
// bytes, and believes them when they have the manifest's digest.
package weights
