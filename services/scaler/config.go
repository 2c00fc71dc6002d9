package scaler

import (
	"fmt"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
)

// Config is what an operator sets.
type Config struct {
	// Kafka is where load samples come from.
	Kafka kafka.Config
	// Scaling is a policy that can be chosen live, with its settings (pkg/policy/registry).
	Scaling string
	// CV is the threshold up to which the replicas of a layer count as balanced.
	CV float64
	// MemoryCap bounds the bytes of a layer's replicas beyond each expert's first.
	MemoryCap uint64
	// KeepAlive is how long replicas that are retired stay loaded, and ZeroAfter how long
	// experts without rows do; 0: as the policy says by KeepAlive.
	KeepAlive, ZeroAfter time.Duration
	// Horizon is how long a change may take to pay for itself.
	Horizon time.Duration
	// MessageTime is what one more message makes a layer take; nil: it is measured.
	MessageTime *time.Duration
	// Worth is the part of all time that a replica in every layer has to save.
	Worth float64
	// Unjudged says that changes stay whatever comes of them.
	Unjudged bool
	// Takes is what an access takes on the hosts, for policies that decide by that; nil: they
	// go by what hosts tell of rows.
	Takes *cost.Device
	// Load is what loading an expert takes there; 0: it is not known before hosts have told.
	Load time.Duration
	// Rent plans for hosts of a serverless platform in Scaling's place; nil: they are of none.
	Rent *Rent
}

// Check says what is wrong, by the names of the flags.
func (c Config) Check() error {
	message := time.Duration(0)
	if c.MessageTime != nil {
		message = *c.MessageTime
	}
	for name, d := range map[string]time.Duration{"keep-alive": c.KeepAlive, "zero-after": c.ZeroAfter, "message-time": message} {
		if d < 0 || d > longest {
			return fmt.Errorf("--%s is %v; it must be 0 to %v", name, d, longest)
		}
	}
	if c.Horizon < shortest || c.Horizon > longest {
		return fmt.Errorf("--horizon is %v; it must be %v to %v, as changes take a load at least, and are judged by what comes of them within it", c.Horizon, shortest, longest)
	}
	switch {
	case c.Load > c.Horizon:
		return fmt.Errorf("--horizon is %v, and loading an expert takes %v on these hosts, so that no change could pay for itself; set it to %v at least, which is four loads", c.Horizon, c.Load, 4*c.Load)
	case c.ZeroAfter > 0 && c.KeepAlive > c.ZeroAfter:
		return fmt.Errorf("--keep-alive is %v and --zero-after %v, so that an expert's last replica would go before those that nobody needs; set --keep-alive to %v at most, or --zero-after to %v at least",
			c.KeepAlive, c.ZeroAfter, c.ZeroAfter, c.KeepAlive)
	}
	if err := c.settings().Check(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	return nil
}

const (
	// longest is the longest time that anything is waited for.
	longest = 24 * time.Hour
	// shortest is the shortest horizon: a layer's plan is decided on four times in it.
	shortest = time.Second
)

func (c Config) settings() elastic.Settings {
	s := elastic.DefaultSettings()
	s.Scaling, s.CV, s.MemoryCap = c.Scaling, c.CV, c.MemoryCap
	s.KeepAlive, s.ZeroAfter, s.Horizon = c.KeepAlive.Seconds(), c.ZeroAfter.Seconds(), c.Horizon.Seconds()
	s.Worth, s.Unjudged, s.Takes = c.Worth, c.Unjudged, c.Takes
	if c.Load > 0 {
		s.LoadSeconds = c.Load.Seconds()
	}
	if c.MessageTime != nil {
		s.MessageSeconds, s.MessageFixed = c.MessageTime.Seconds(), true
	}
	return s
}

// policy is the policy's name.
func (c Config) policy() string {
	name, _, _ := strings.Cut(c.Scaling, ":")
	return name
}
