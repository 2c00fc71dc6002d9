package sim

import (
	"cmp"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/divide"
)

// Settings are what policies run on; each has a default in Defaults.
type Settings struct {
	Model Model
	// Believed is the profile that policies decide by where they are mistaken about the
	// device; nil is the model's.
	Believed *profiles.Profile
	// Hosts are the devices of the model's profile.
	Hosts int
	// CV is the threshold up to which a layer counts as balanced.
	CV float64
	// Distance is how many layers ahead loads are predicted.
	Distance int
	// Accuracy is the share of routed rows that a prediction gives to the right
	// expert, for the distances from 1; the last counts for those beyond.
	Accuracy []float64
	// KeepAlive are the seconds that a replica without rows stays in memory.
	KeepAlive float64
	// Division is what gates divide rows by, of policies that divide them by what accesses
	// take; nil: what the policy decides by.
	Division *divide.Takes
	// Apart says that each replica's rows are a call of their own, as where each expert
	// is a function; else a host computes a layer in one call.
	Apart bool
	// MessageSeconds are what one more message makes a layer take: a host gets one, or each
	// replica where rows are apart.
	MessageSeconds float64
	// Other are the seconds that a layer takes beside its experts.
	Other float64
	// Predict are the seconds from a layer's beginning to the prediction that is
	// made there.
	Predict float64
	// Seed is for errors of predictions.
	Seed uint64
	// Failures are hosts that go away, and Notice the seconds that a layer then waits until
	// its rows go elsewhere.
	Failures []Failure
	Notice   float64
	// Stopped reports whether to give up; nil is never.
	Stopped func() bool
}

// Defaults are the settings of the paper's evaluation (MoEless, §6.1, §6.6) and,
// where it has none, what is assumed.
func Defaults(m Model) Settings {
	return Settings{
		Model: m, Hosts: 8, CV: 0.2, Distance: 1,
		Accuracy:  []float64{0.868, 0.831, 0.799, 0.773, 0.746}, // docs/predictors.md: the demo model, held-out texts
		KeepAlive: 60,                                           // assumed: the flag's default of the scaler
		Other:     0.5e-3,                                       // assumed: attention of a step on its own devices
		Predict:   0.2e-3,                                       // §6.6: "below 0.2 ms per layer"
	}
}

func (s Settings) divider() *divide.Divider {
	if s.Division != nil {
		return divide.New(s.Division.Device(1), 1, s.Hosts)
	}
	return divide.New(s.takes(), s.Model.Profile.ExpertBytes.Value, s.Hosts)
}

func (s Settings) believed() *profiles.Profile { return cmp.Or(s.Believed, s.Model.Profile) }

// slots are the experts of a layer that fit on a host: the layers share its
// memory as evenly as whole experts can.
func (s Settings) slots(layer int) int {
	all := int(s.Model.Profile.Memory() / s.Model.Profile.Expert())
	return min(s.Model.Experts, all*(layer+1)/s.Model.Layers-all*layer/s.Model.Layers)
}

// The largest simulated cluster.
const mostHosts = 100_000

// Check says what is wrong with the settings.
func (s Settings) Check() error {
	switch {
	case s.Hosts < 1 || s.Hosts > mostHosts:
		return fmt.Errorf("there are %d hosts; there must be 1 to %d", s.Hosts, mostHosts)
	case !(s.CV >= 0):
		return fmt.Errorf("the threshold of CV is %v; it must be 0 or above", s.CV)
	case s.Distance < 1 || s.Distance > s.Model.Layers:
		return fmt.Errorf("the prediction distance is %d; it must be 1 to the %d layers", s.Distance, s.Model.Layers)
	case !(s.KeepAlive >= 0 && s.Other >= 0 && s.Predict >= 0 && s.MessageSeconds >= 0):
		return fmt.Errorf("keep-alive %v s, other %v s, prediction %v s and a message's %v s must all be 0 or above", s.KeepAlive, s.Other, s.Predict, s.MessageSeconds)
	case s.slots(0)*s.Hosts < s.Model.Experts:
		return fmt.Errorf("%d hosts of %d bytes hold fewer than the %d experts of %d bytes in each of %d layers; take more hosts",
			s.Hosts, s.Model.Profile.Memory(), s.Model.Experts, s.Model.Profile.Expert(), s.Model.Layers)
	}
	return cmp.Or(s.checkFailures(), s.checkAccuracy())
}

func (s Settings) checkAccuracy() error {
	if len(s.Accuracy) == 0 {
		return fmt.Errorf("no accuracy of predictions is given; it takes one for each distance from 1")
	}
	for i, a := range s.Accuracy {
		if !(a >= 0 && a <= 1) {
			return fmt.Errorf("the accuracy of distance %d is %v; it must be 0 to 1", i+1, a)
		}
	}
	return nil
}

func (s Settings) accuracy() float64 { return s.Accuracy[min(s.Distance, len(s.Accuracy))-1] }
