package place

// MoEless is algorithm 2: replicas are placed one after the other, most load
// first (line 4). One goes to a host that holds its expert from before, the
// least loaded of several (lines 5 and 6), else to the least loaded of all
// (lines 7 and 8, Join the Shortest Queue); either only where its memory fits
// (§4.3).
//
// As printed, lines 9 and 10 change a host's load while it is in the set that
// the next minimum is taken from: they mean that it is taken out, changed, and
// put back.
func MoEless(s State) (Placement, error) {
	f := newFleet(s)
	q := newQueue(f, f.indices(), s.Experts)
	for _, e := range byLoad(s.Experts) {
		if err := q.placeAll(e, f.warm[e.ID]); err != nil {
			return Placement{}, err
		}
	}
	return f.placement(), nil
}
