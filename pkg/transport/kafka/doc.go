// Package kafka carries load samples from gates, hosts and predictors to the scaler.
// No request depends on a sample, and old samples are worth little: what Kafka does
// not take in time is dropped, oldest first, and counted.
//
// A Writer never makes its caller wait. Send numbers a sample and puts it into a ring;
// one goroutine sends all partitions of a broker in one request, since the client
// library's own writer, with a request a partition, costs more than the samples. It
// tries again until the brokers in sync have it.
//
// A Reader is a member of a consumer group. It fetches all its partitions in one
// request a leader, commits at once from where it reads, so that the next reader of a
// partition misses nothing, commits again before it lets go of one, and drops repeats
// by their numbers.
//
// Neither kafka-go nor the embedded broker's library doubts what a message claims. So
// package wire walks each message, without making room for anything, before a library
// reads it: a connection here (checked.go) so checks answers, unpacks batches within
// bounds, and puts an empty record where it left one out; the embedded broker's guard
// so checks requests. Package loads judges the samples themselves.
package kafka
