package meter

// Gigabyte is the unit of sums, in bytes.
const Gigabyte = 1e9

// Sums are what units have come to. GB·s are gigabytes of units times the seconds that
// they had them.
type Sums struct {
	// Loading, Kept and Serving are GB·s by state. Together they are all memory for as
	// long as it was set aside.
	Loading, Kept, Serving float64
	// Taken are the GB·s that accesses were told. The rest was idle.
	Taken float64
	// Begun are loads that memory was set aside for, Loads those of them that ended well, and
	// Moved the bytes of these.
	Begun uint64
	Loads uint64
	Moved uint64
	// ColdStarts are loads that rows waited for.
	ColdStarts uint64
	// Peak is the most bytes that were set aside at once.
	Peak uint64
	// Seconds are those of the meter's clock.
	Seconds float64
}

// Held are all GB·s.
func (s Sums) Held() float64 { return s.Loading + s.Kept + s.Serving }

// Idle are the GB·s that no access has taken.
func (s Sums) Idle() float64 { return max(0, s.Held()-s.Taken) }

// Mean is the bytes that were set aside, over the meter's time.
func (s Sums) Mean() float64 { return s.Held() * Gigabyte / max(s.Seconds, 1e-9) }

// Read sums up all groups as of now. What it says never falls.
func (m *Meter) Read(now float64) Sums {
	var by [states]float64
	for i := range m.groups {
		m.groups[i].addTo(&by, now)
	}
	for s := range by {
		m.told[s] = max(m.told[s], by[s])
	}
	s := of(m.told)
	s.Taken, s.Begun, s.Loads, s.Moved, s.ColdStarts = m.taken/Gigabyte, m.begun, m.loads, uint64(m.moved), m.colds
	s.Peak, s.Seconds = uint64(m.peak), after(now, 0)
	return s
}

// Group sums up the states of one group as of now; there is nothing of one that is none.
func (m *Meter) Group(i int, now float64) Sums {
	var by [states]float64
	if uint(i) >= uint(len(m.groups)) {
		return Sums{}
	}
	m.groups[i].addTo(&by, now)
	s := of(by)
	s.Seconds = after(now, 0)
	return s
}

func of(by [states]float64) Sums {
	return Sums{Loading: by[Loading] / Gigabyte, Kept: by[Kept] / Gigabyte, Serving: by[Serving] / Gigabyte}
}

// addTo adds byte·seconds, with those of units that are in a state yet.
func (g *group) addTo(by *[states]float64, now float64) {
	for s := range by {
		by[s] += g.sums[s] + max(0, g.bytes[s]*after(now, 0)-g.weighted[s])
	}
}
