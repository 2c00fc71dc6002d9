// Package profiles says what other devices take for the experts of a model:
// time, memory and transfers, each number with where it comes from.
//
// A profile is a YAML file. Those beside this file are in the binary; copy one to
// calibrate it.
package profiles

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Profile is a device with the experts of a model.
type Profile struct {
	// Name is that of the file, without its folder and ending.
	Name string
	// Time is the form of what computing takes; "" is Roofline. No file has it. A file without
	// the roofline's numbers has Printed, whatever is here.
	Time Time
	// Device and Experts are for people.
	Device, Experts string

	// Read is the bytes a second at which kernels read weights, Rate the floating-point
	// operations a second that they reach, Element the bytes of one parameter.
	Read, Rate, Element Number
	// Access is the seconds of an access beside both, Call those of a call.
	Access, Call Number
	// Curve is what accesses were measured to take; nil where they were not.
	Curve *Curve
	// Alpha is the seconds of a row where time is MoEless's printed α·rows.
	Alpha Number
	// Beta is the seconds that a row takes to the device, and again those back.
	Beta Number
	// ExpertBytes is an expert's memory on the device, MemoryBytes all that there
	// is for experts.
	ExpertBytes, MemoryBytes Number
	// Bandwidth is the bytes a second from the machine's memory to the device's.
	Bandwidth Number
	// ColdStart is the seconds from the want of an expert to its transfer.
	ColdStart Number
	// Shared is the bytes a second of one link that all devices of a machine share; 0: each has its own.
	Shared Number
	// Below is the machine's memory for experts; 0: it has all of them. Those that are not there come
	// from a store: Store bytes a second after Latency seconds, one at a time.
	Below, Store, Latency Number

	curve *cost.Curve // what computing takes, if it was told to (Take)
}

// Number is a figure and where it comes from: a source that others can look up,
// or "assumed", and why so much.
type Number struct {
	Value  float64
	Source string
}

func (n Number) duration() time.Duration { return time.Duration(n.Value * float64(time.Second)) }

func (n Number) String() string {
	format := byte('f')
	if n.Value < 1 {
		format = 'g'
	}
	return strconv.FormatFloat(n.Value, format, -1, 64)
}

// Time is a form of what computing takes.
type Time string

// The forms.
const (
	// Roofline reads an expert's weights once an access and then pays for each row.
	Roofline Time = "roofline"
	// Measured is read off a curve.
	Measured Time = "measured"
	// Printed is MoEless's α·rows.
	Printed Time = "printed"
)

// Compute returns what computing takes on the device.
func (p *Profile) Compute() cost.Device {
	switch {
	case p.measured():
		return cost.Device{Timer: p.curve, Call: p.Call.Value}
	case p.printed():
		return cost.Device{Timer: cost.Printed{Alpha: p.Alpha.Value}}
	}
	return cost.Device{
		Timer: cost.Roofline{Bandwidth: p.Read.Value, Rate: p.Rate.Value, Overhead: p.Access.Value, ElementBytes: p.Element.Value},
		Call:  p.Call.Value,
	}
}

// Row returns the seconds that a row takes among many others of its expert.
func (p *Profile) Row() float64 {
	const many = 1 << 16
	return p.Compute().Seconds(p.Of(many)) / many
}

// Of returns an access of an expert for so many rows.
func (p *Profile) Of(rows int) cost.Access {
	return cost.Access{Bytes: p.ExpertBytes.Value, Rows: rows}
}

// Communicate returns the time of so many rows one way: to the device, or back.
func (p *Profile) Communicate(rows int) time.Duration {
	return time.Duration(float64(rows) * p.Beta.Value * float64(time.Second))
}

// Transfer returns the time that an expert's weights take to the device.
func (p *Profile) Transfer() time.Duration {
	return time.Duration(p.Link().Transfer(p.ExpertBytes.Value) * float64(time.Second))
}

// Link returns the way of experts' weights to the device.
func (p *Profile) Link() cost.Link {
	l := cost.Link{Latency: p.ColdStart.Value, Bandwidth: p.Bandwidth.Value}
	if p.Shared.Value > 0 {
		l.Bandwidth = min(l.Bandwidth, p.Shared.Value)
	}
	return l
}

// Fetch returns the time that an expert's weights take from the store to the machine's memory.
func (p *Profile) Fetch() time.Duration {
	return time.Duration(p.Way().Seconds(p.ExpertBytes.Value) * float64(time.Second))
}

// Way is that of experts' weights from the store to the machine's memory.
func (p *Profile) Way() cost.Link {
	return cost.Link{Latency: p.Latency.Value, Bandwidth: p.Store.Value}
}

// Start returns the time before a cold expert's transfer.
func (p *Profile) Start() time.Duration { return p.ColdStart.duration() }

// Expert returns an expert's bytes on the device.
func (p *Profile) Expert() int64 { return int64(p.ExpertBytes.Value) }

// Memory returns the device's bytes for experts.
func (p *Profile) Memory() int64 { return int64(p.MemoryBytes.Value) }

// Values returns the profile's numbers by their names.
func (p *Profile) Values() map[string]float64 {
	all := map[string]float64{}
	for _, f := range fields {
		all[f.key] = f.of(p).Value
	}
	return all
}

func (p *Profile) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "paced: experts take the time and memory of profile %s, not this machine's\n", p.Name)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  device\t%s\n  experts\t%s\n", p.Device, p.Experts)
	for _, f := range p.fields() {
		n := f.of(p)
		fmt.Fprintf(w, "  %s\t%s\t%s\n", f.key, n, n.Source)
	}
	if p.Curve != nil {
		fmt.Fprintf(w, "  curve\t%d points\t%s\n", len(p.Curve.Points), p.Curve.Source)
	}
	w.Flush() // a strings.Builder takes everything
	return b.String()
}

func (p *Profile) measured() bool { return p.Time == Measured && p.curve != nil }

func (p *Profile) printed() bool { return p.Time == Printed || p.Read.Value == 0 }
