package attention

// Config is what an operator sets.
type Config struct {
	// MaxModelLen bounds a sequence, prompt and generated tokens together; 0 is the model's limit.
	MaxModelLen int
	// KVBytes is the memory for keys and values.
	KVBytes int64
	// MaxSequences bounds the sequences that a replica has at once.
	MaxSequences int
	// MaxRows bounds the rows of a microbatch.
	MaxRows int
	// Microbatches is how many microbatches are in flight at once.
	Microbatches int
	// MinRows is the fewest decode rows for which another worker is used; 0 is by the model's size.
	MinRows int
	// LongSteps lets prefill take as long as MaxRows rows take, for measurements.
	LongSteps bool
}
