package elastic

// doubt are the rows that a correction needs to be half believed.
const doubt = 100

// Correct takes predictions times what came of those before: where an expert always gets
// more rows than are foreseen, as many more are expected again. foreseen and came are the
// rows of each expert so far, the newer the more. It adds to to.
func Correct(to, predicted, foreseen, came []float64) []float64 {
	for e, n := range predicted {
		to = append(to, n*(came[e]+doubt)/(foreseen[e]+doubt))
	}
	return to
}
