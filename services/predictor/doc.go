// Package predictor predicts: from the rows that go to one layer's gate it
// tells how many rows each expert of a later layer will get. It reads copies of
// the rows on core NATS, so that no service waits for it: it drops what it is too
// slow for.
package predictor
