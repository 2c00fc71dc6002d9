// Package checkpoint writes folders of models.
//
// folder.go makes a folder that has its name only when it is whole, with what lies beside weights and the
// index of their files; package upcycle uses it, too. quantise.go decides what a copy with matrices in groups
// (see model.Ahead) consists of, and shard.go and rows.go write it: a piece of some rows at a time and a thread,
// so that neither the model nor, unless it is stored as (inputs, outputs), a matrix is ever in memory as a whole.
package checkpoint
