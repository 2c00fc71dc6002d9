package elastic

import (
	"github.com/switchyard/switchyard/pkg/policy/cost"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// access is what hosts take for messages of a layer: a part that each message has, such as
// reading weights, and a part that each row has. It is a fit by least squares to what hosts
// tell, the newest most.
type access struct{ mm, mr, rr, mt, rt, n float64 }

const (
	accessKeep = 0.98
	// accessLeast is after how many samples of functions a fit is believed.
	accessLeast = 8
)

func (a *access) add(f *pb.FunctionLoad, seconds float64) {
	m, r := float64(f.Messages), float64(f.Rows)
	for _, v := range []*float64{&a.mm, &a.mr, &a.rr, &a.mt, &a.rt, &a.n} {
		*v *= accessKeep
	}
	w := 1 / r // a sample of many rows scatters as much more
	a.mm += w * m * m
	a.mr += w * m * r
	a.rr += w * r * r
	a.mt += w * m * seconds
	a.rt += w * r * seconds
	a.n++
}

// timer is what a message of rows takes; false while too little is known.
func (a *access) timer() (t affine, known bool) {
	if a.n < accessLeast || a.mm == 0 {
		return t, false
	}
	// Where all messages have as many rows, both parts cannot be told apart: then
	// all is taken for rows, as before.
	det := a.mm*a.rr - a.mr*a.mr
	if det < 1e-3*a.mm*a.rr {
		return affine{row: a.rt / a.rr}, true
	}
	t = affine{message: (a.mt*a.rr - a.rt*a.mr) / det, row: (a.rt*a.mm - a.mt*a.mr) / det}
	switch {
	case t.message < 0:
		t = affine{row: a.rt / a.rr}
	case t.row < 0:
		t = affine{message: a.mt / a.mm}
	}
	return t, true
}

// affine is a time with a part for each access and one for each row.
type affine struct{ message, row float64 }

// Seconds implements cost.Timer.
func (a affine) Seconds(x cost.Access) float64 {
	if x.Rows <= 0 {
		return 0
	}
	return a.message + a.row*float64(x.Rows)
}

// timer is what accesses of a layer take: by the device's profile, or as hosts tell, or
// in proportion to rows while they have told little.
func (r *round) timer(w *work) cost.Timer {
	if r.c.s.Takes != nil {
		return r.c.s.Takes.Timer
	}
	if t, known := w.fits.timer(); known {
		return t
	}
	return cost.Printed{Alpha: r.row(w)}
}
