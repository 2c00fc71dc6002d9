// Package browned tests whole pipelines whose rows united experts compute, or nobody: their bits are
// those of direct calls with the same split, whoever has them again, and `switchyard rerun` finds the
// same tokens.
package browned
