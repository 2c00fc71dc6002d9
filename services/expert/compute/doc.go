// Package compute turns a dispatch into a partial: it decodes the rows, has the host's device
// compute them with the experts that the device holds, and encodes a weighted row a slot, or
// the sum of a token row's slots where all of them are here (rowsums.go). It knows neither
// functions nor messages.
//
// Computers lends buffers to whoever computes, and knows how long they were busy. Its lock is
// held while one is taken or given back, and not while one computes.
package compute
