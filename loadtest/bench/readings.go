package bench

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// readings are the values of counters, and the sums and counts of histograms, by
// name and labels: "switchyard_bus_messages_total{direction=out}{stream=hidden}".
type readings map[string]float64

func read(g prometheus.Gatherer) (readings, error) {
	families, err := g.Gather()
	if err != nil {
		return nil, fmt.Errorf("reading the pipeline's metrics: %w", err)
	}
	all := readings{}
	for _, f := range families {
		for _, m := range f.Metric {
			labels := ""
			for _, l := range m.Label {
				if name := l.GetName(); name != "model" && name != "device" { // those of the whole process
					labels += "{" + l.GetName() + "=" + l.GetValue() + "}"
				}
			}
			all[f.GetName()+labels] = m.GetCounter().GetValue()
			all[f.GetName()+"_sum"+labels] = m.GetHistogram().GetSampleSum()
			all[f.GetName()+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all, nil
}

// since is what has come to an earlier reading.
func (r readings) since(before readings) readings {
	gained := readings{}
	for name, v := range r {
		gained[name] = v - before[name]
	}
	return gained
}

func (r readings) steps() float64 { return max(1, r["switchyard_step_duration_seconds_count"]) }

// tensorStreams are the kinds of streams whose messages steps are made of.
var tensorStreams = []string{"hidden", "gate", "expert", "host", "partial", "block"}

// traffic is the tensors' messages and payload bytes of a step.
func (r readings) traffic() (messages, bytes float64) {
	for _, stream := range tensorStreams {
		labels := "{direction=out}{stream=" + stream + "}"
		messages += r["switchyard_bus_messages_total"+labels]
		bytes += r["switchyard_bus_payload_bytes_total"+labels]
	}
	return messages / r.steps(), bytes / r.steps()
}
