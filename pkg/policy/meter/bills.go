package meter

// The bills of the papers, in GB·s. Prices are pkg/policy/cost's.

// Layer is what MoEless bills for one layer of one iteration (§3.3, C): the memory of the
// layer's replicas while the layer runs.
func Layer(seconds, bytes float64) float64 { return seconds * bytes / Gigabyte }

// Serverful is what MoEless bills for static expert parallelism, EPLB and the oracle (§6.1):
// all memory, all the time.
func Serverful(s Sums) float64 { return s.Held() }

// Invocation is what Remoe (§III-C: the product of each replica's memory and its run time)
// and BO/ODS (§III-C, eq. 4 and 5) bill for one call of a function: the memory that was
// configured for it, from its start to the end of its last upload, for each of its replicas.
func Invocation(seconds, bytes float64, replicas int) float64 {
	return seconds * bytes / Gigabyte * float64(max(0, replicas))
}
