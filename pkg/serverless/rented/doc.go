// Package rented plans requests that come one by one to a model whose experts may be functions of a
// serverless platform: Remoe's setting (section V), a request at a time and none of it warm. What a
// plan takes and costs is said by pkg/policy/cost/serverless.
package rented
