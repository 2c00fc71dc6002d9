package goldens

import (
	"encoding/binary"
	"math"
)

// twister is the Mersenne Twister MT19937 as torch seeds it.
type twister struct {
	state [624]uint32
	at    int
}

func newTwister(seed uint32) *twister {
	t := &twister{at: len(twister{}.state)}
	t.state[0] = seed
	for i := 1; i < len(t.state); i++ {
		before := t.state[i-1]
		t.state[i] = 1812433253*(before^before>>30) + uint32(i)
	}
	return t
}

func (t *twister) next() uint32 {
	if t.at == len(t.state) {
		t.twist()
	}
	y := t.state[t.at]
	t.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (t *twister) twist() {
	n := len(t.state)
	for i := range n {
		y := t.state[i]&(1<<31) | t.state[(i+1)%n]&(1<<31-1)
		t.state[i] = t.state[(i+397)%n] ^ y>>1 ^ y&1*0x9908b0df
	}
	t.at = 0
}

// draws is what the generator yields of a seed, as far as it was needed.
type draws struct {
	from *twister
	all  []uint32
}

func (d *draws) slice(at, n int) []uint32 {
	for len(d.all) < at+n {
		d.all = append(d.all, d.from.next())
	}
	return d.all[at:][:n]
}

// group is how many normal numbers torch makes at a time, of as many uniform ones.
const group = 16

// normals returns the n >= 16 normal numbers that torch.randn makes of the draws from at on.
func (d *draws) normals(at, n int) []float32 {
	out := make([]float32, n)
	whole := n / group * group
	for i := 0; i < whole; i += group {
		boxMuller(out[i:][:group], d.slice(at+i, group))
	}
	if whole < n { // the last sixteen numbers are drawn anew
		boxMuller(out[n-group:], d.slice(at+n, group))
	}
	return out
}

// boxMuller makes pairs of normal numbers of pairs of uniform ones, which lie eight apart.
func boxMuller(out []float32, raw []uint32) {
	for i := range group / 2 {
		radius := math.Sqrt(-2 * math.Log(float64(1-uniform(raw[i]))))
		sin, cos := math.Sincos(2 * math.Pi * float64(uniform(raw[i+group/2])))
		out[i], out[i+group/2] = float32(radius*cos), float32(radius*sin)
	}
}

// uniform returns a float32 from 0 on below 1.
func uniform(raw uint32) float32 { return float32(raw&(1<<24-1)) / (1 << 24) }

// half appends a bf16, rounded to nearest, ties to even.
func half(to []byte, v float32) []byte {
	b := math.Float32bits(v)
	return binary.LittleEndian.AppendUint16(to, uint16((b+0x7fff+b>>16&1)>>16))
}
