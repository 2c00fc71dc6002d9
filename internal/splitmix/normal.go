package splitmix

import (
	"math"
	"sync"
)

// normals is a power of two so that twelve bits choose an entry; it stays in the
// first-level cache.
const normals = 4096

// Normals are the middles of 4096 equal slices of the normal distribution: twelve
// random bits choose one.
var Normals = sync.OnceValue(func() *[normals]float64 {
	var q [normals]float64
	for i := range q {
		p := (float64(i) + 0.5) / normals
		q[i] = math.Sqrt2 * math.Erfinv(2*p-1)
	}
	return &q
})
