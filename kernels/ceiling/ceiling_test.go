package ceiling

import "testing"

func TestCeilings(t *testing.T) {
	if f := FMA(); f < 1e8 || f > 1e13 {
		t.Errorf("%.3g operations a second", f)
	}
	for name, f := range map[string]float64{"pairs": Pairs(), "bytes": Bytes(), "tiles of pairs": TilePairs(), "tiles of bytes": TileBytes()} {
		if f != 0 && !(f > FMA()/2 && f < 1e14) {
			t.Errorf("%s: %.3g operations a second", name, f)
		}
	}
	if b := BandwidthOfPieces(8<<20, 2<<20); b < 1e8 || b > 1e13 {
		t.Errorf("pieces: %.3g bytes a second", b)
	}
	for threads := range 3 {
		if b := Bandwidth(4<<20, threads); b < 1e8 || b > 1e13 {
			t.Errorf("%d threads: %.3g bytes a second", threads, b)
		}
	}
}

func BenchmarkFMA(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(FMA()/1e9, "GFLOP/s")
		b.ReportMetric(Pairs()/1e9, "bf16-GFLOP/s")
		b.ReportMetric(Bytes()/1e9, "int8-GOP/s")
		b.ReportMetric(TilePairs()/1e9, "amx-bf16-GFLOP/s")
		b.ReportMetric(TileBytes()/1e9, "amx-int8-GOP/s")
	}
}

func BenchmarkBandwidth(b *testing.B) {
	for _, c := range []struct {
		name           string
		bytes, threads int
	}{{"memory/1", 256 << 20, 1}, {"memory/2", 256 << 20, 2}, {"cache/1", 8 << 20, 1}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(Bandwidth(c.bytes, c.threads)/1e9, "GB/s")
			}
		})
	}
}
