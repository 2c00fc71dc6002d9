// Package testtrajectory follows tokens through the layers. It joins what attention
// announces of a step with the rows that it then sends to the gates: a token's
// trajectory names its request, and has its hidden row at each layer with experts.
//
// Both are read on core NATS, beside the services: subscribe to Subjects.Step,
// AnyHidden and AnyGate, best with one channel for the three so that their order
// stays, and give each body to Reader.Step or Reader.Hidden. Messages may be lost,
// repeated and come in any order; a step that never becomes whole is dropped
// when newer ones need its memory.
package testtrajectory
