// Package shared plans by Remoe for all requests of a model at once, which one set of functions
// serves (pkg/policy/deployplan/remoe plans for one request).
//
//	admitted requests ─▶ one that stands for them ─remoe.After─▶ plan ─worth it?─▶ plan in force
//
// The share of remote experts and the main model's memory are decided once, for the longest
// request that the SLO is promised to: what no plan keeps is refused before anything starts, or
// served as MIX does where that is asked for. Which experts leave, the memory of functions and
// their replicas follow the last requests: their mean activation, and the longest of them. A new
// plan replaces the one in force if the last requests would have paid less for it, what its new
// functions cost to start included, or if more of them would have kept their SLO.
//
// Layers makes hosts' plans of it: one host stands beside attention, the others have at most one
// replica of each layer's function. PlanOf reads them back, so that who plans next goes on from
// the plan in force.
package shared
