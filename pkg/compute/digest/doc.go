// Package digest tells tensors apart by their content: the SHA-256 of each
// tensor's bytes, and from these and config.json the identity of a model, which
// is the same however its tensors are spread over files or objects.
//
// # The cache
//
// Hashing a large model reads all of it, so the digests of a folder are kept in
// a file beside the weights, or in the user's cache folder where that one cannot
// be written. An entry holds for a file with the same size, time of change and
// header; what has changed is hashed again. A model of up to Small bytes is
// hashed each time: that takes less than it is worth to leave a file behind.
//
// What is noticed: a cache that is damaged (it carries its own digest), one of
// another file, and, by hashing a few small tensors of each file again, many of
// those that were made up. What is not: a change of weights that keeps size and
// time, and a made-up entry for a large tensor. A user who can do that can write to the
// model's folder, and needs no cache to change what is served.
// Digests of an object store are compared with what comes from it each time.
package digest
