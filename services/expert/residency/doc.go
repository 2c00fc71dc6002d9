// Package residency has the functions of a host: which of them plans want here, which are
// loading, warm, asleep, retired or resting, and which make room for others.
//
//	plans ─Adopt─▶ table ─wake─▶ a keeper a function ─▶ device (loads), Network (groups)
//	rows ──Rouse─▶   │
//	               Announce ─▶ gates, other hosts
//
// The table (table.go) holds all of it, under one lock: what plans and rows want (wants.go,
// rouse.go, borrow.go), and who makes room for whom (room.go, loans.go). Nothing waits while
// it is held. A function's keeper (keeper.go, retire.go, refuse.go) does what takes time, so
// that no function waits for another.
//
// The device holds experts, one by one, by pkg/policy/residency: an expert that has a ticket
// is not evicted there. This package says which tickets there are. It does not use that
// machine for functions, since a function is served as a whole or not at all, shares experts
// with others, and goes only when gates have let go of it; the order in which functions make
// room is of the same type, residency.Order.
//
// It asks its network and its device, and knows nothing of the messages that bring rows.
package residency
