package cpu

// useEmulated has plain Go take the place of AMX, where the processor has all that is beside it, until restore is called.
func useEmulated() (restore func(), ok bool) {
	if supported(amxTiles) || !supported(avx512vnni) {
		return nil, false
	}
	old := active
	active, emulateTiles = amxTiles, emulateInGo
	return func() { active, emulateTiles = old, nil }, true
}
