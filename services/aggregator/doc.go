// Package aggregator collects the partials of a group of rows, sums them in
// slot order, and sends the block back to the attention replica that owns the
// step. Each replica has a subject of its own; attention chooses one for every
// group and attempt.
package aggregator
