// Package predictor predicts: from the rows that go to one layer's gate it
// tells how many rows each expert of a later layer will get. It reads copies of
// the rows on core NATS, so that nobody waits for it: what it is too slow for is
// dropped.
package predictor
