// Package batched says how models are deployed for batches of tokens on a serverless platform:
// BO/ODS's setting (section V). A deployment is planned before the batches come, by what a text
// foretells. What a plan takes and costs is said by pkg/policy/cost/scatter.
package batched
