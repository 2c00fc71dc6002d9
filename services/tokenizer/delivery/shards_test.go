package delivery

import "testing"

// However many shards look at once, only those beyond the share go.
func TestSpare(t *testing.T) {
	var h shardSet
	for shard := range 8 {
		h.set(shard, &ownedShard{})
	}
	gone := 0
	for shard := range 8 {
		if h.spare(shard, 4) {
			gone++
		}
	}
	if gone != 4 {
		t.Errorf("%d of 8 shards given up for a share of 4", gone)
	}
}
