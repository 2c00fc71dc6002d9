// Package rented simulates requests that come one by one to a model whose experts may be functions
// of a serverless platform: Remoe's setting (section V), a request at a time and none of it warm.
//
//	texts ─Past──▶ store of similar prompts
//	      └Served─▶ predict ─▶ plan ─▶ bill, by what the request's rows chose
//
// Texts are those of the generator of pkg/serverless/routing, whose tokens, domains and topics make
// choices as those of recorded rows hang together. What a plan takes and costs is said by
// pkg/policy/cost/serverless, with the time beside its work that each invocation draws: the same
// draws for the same request, whatever the plan.
package rented
