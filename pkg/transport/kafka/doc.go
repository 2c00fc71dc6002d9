// Package kafka carries load samples from those who make them to the scaler: a
// Writer that never makes its caller wait, and a Reader that is one of a consumer
// group. Samples are worth little when they are old and nothing in a request
// depends on them: what Kafka does not take in time is dropped, oldest first, and
// counted.
package kafka
