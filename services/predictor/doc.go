// Package predictor predicts, of the rows that go to one layer's gate, what experts of later
// layers will get. It tells
//
//	loads  how many rows each expert of a layer --distance ahead will have: to Kafka, for scalers (worker.go)
//	hints  which experts the next layers of a step will ask for: to the hosts that offload (mapper.go)
//
// No service waits for a predictor. For loads it hears copies of rows on core NATS, as many as
// --max-rate allows, and drops what it is too slow for (listener.go, backlog.go). For hints it
// reads every step and row from the stream ROWS, which attention fills with --rows-to-predictor all
// (rows.go). Hints come from expert maps (pkg/policy/expertmap), which it makes of the steps that are
// over, and keeps in a file from time to time (saving.go).
package predictor
