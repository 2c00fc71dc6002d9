package cpu

// emulateTiles has plain Go take the place of AMX, where the processor has all that is beside it, until restore is called.
func emulateTiles() (restore func(), ok bool) {
	if supported(amxTiles) || !supported(avx512vnni) {
		return nil, false
	}
	old := active
	active, tilesEmulated = amxTiles, true
	return func() { active, tilesEmulated = old, false }, true
}
