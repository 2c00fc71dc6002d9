// Package world is what policies decide by: one model of what is, and one form of what is
// decided.
//
//	events ─Observe─▶ World ─Decide─▶ Decision
//
// A World has hosts with their tiers, units with their bytes, the rows that come for them
// and what says so, and what hosts hold. The scaler fills one
// by samples and members, the simulator by its own clock; a policy cannot tell which of
// them asks. The package is pure: seconds are the caller's.
package world
