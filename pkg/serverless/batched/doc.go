// Package batched simulates batches of tokens that come to a model whose experts are functions of a
// serverless platform: BO/ODS's setting (section V). A deployment is planned before the batches come,
// by what a text foretells, and is billed by what the batches' rows choose.
//
//	texts ─profile─▶ table of chosen experts ─▶ foretold rows ─▶ plan
//	      ├learn───▶ Bayesian optimization of the table             │
//	      └test────▶ real rows ──────────────────────────────▶ bill ┘
//
// Texts are those of a recording of a model, or are written by Shape.Write: tokens by Zipf's law in
// sequences with topics, whose experts follow token, attention, position, topic and chance. What a
// plan takes and costs is said by pkg/policy/cost/scatter.
package batched
