// Package wire looks at messages of Kafka's protocol before a library does. Libraries
// make room for what a message claims: a frame of 14 bytes can claim two gigabytes, a
// batch of 71 bytes two thousand million records, and a batch of some kilobytes can
// become gigabytes when it is unpacked. This package makes no room for any claim that
// the bytes at hand do not bear out.
//
// It knows the messages that the embedded broker's clients and this module's readers
// and writers need, each up to the last version before Kafka's flexible ones, and
// nothing else: see apis.
package wire
