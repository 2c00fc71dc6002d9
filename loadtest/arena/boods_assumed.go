package arena

import (
	"errors"

	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/serverless/batched"
)

// partAssumed is what the cheapest plan costs beside baselines where a number is another one that is
// assumed.
const partAssumed = "assumed"

// assumption changes a number of the platform, or of the cluster: its rate is so many times as high.
type assumption struct {
	name    string
	cluster float64
	change  func(c *batched.Conditions)
}

// assumptions are those that have no source, each at half and at twice its value, and what functions keep or gather.
func assumptions() (all []assumption) {
	nothing := func(*batched.Conditions) {}
	for _, n := range []struct {
		name   string
		change func(c *batched.Conditions, times float64)
	}{
		{"processor", func(c *batched.Conditions, times float64) { c.Platform.CPU.Rate *= times }},
		{"store's bytes a second", func(c *batched.Conditions, times float64) { c.Platform.Parameters.Bandwidth *= times }},
		{"store's first byte", func(c *batched.Conditions, times float64) { c.Platform.Parameters.Latency *= times }},
		{"messages' bytes a second", func(c *batched.Conditions, times float64) { c.Platform.Direct *= times }},
		{"invocation", func(c *batched.Conditions, times float64) {
			c.Platform.Fixed, c.Platform.Random = c.Platform.Fixed*times, c.Platform.Random*times
		}},
	} {
		half := func(c *batched.Conditions) { n.change(c, 0.5) }
		twice := func(c *batched.Conditions) { n.change(c, 2) }
		all = append(all, assumption{n.name + " × 0.5", 1, half}, assumption{n.name + " × 2", 1, twice})
	}
	return append([]assumption{{"as assumed", 1, nothing}}, append(all,
		assumption{"parameters kept", 1, func(c *batched.Conditions) { c.Kept = true }},
		assumption{"one gathers", 1, func(c *batched.Conditions) { c.Gathers = true }},
		assumption{"cluster × 0.5", 0.5, nothing}, assumption{"cluster × 0.25", 0.25, nothing},
	)...)
}

// assumed plans for known rows under each assumption.
func (l *batchLab) assumed() error {
	mean := l.meanRows()
	for _, a := range assumptions() {
		c := l.conditions
		a.change(&c)
		y, err := l.shape.System(c, l.Tokens)
		if err != nil {
			return err
		}
		line := l.line(partAssumed, a.name)
		lambda := y.Serve(ods.LambdaML(y, scatter.Indirect), mean)
		line.Limit = l.Limit * lambda.Seconds
		r, err := ods.Exact(y, mean, line.Limit, ods.Default())
		var no *ods.Infeasible
		if errors.As(err, &no) {
			l.add(line)
			continue
		}
		if err != nil {
			return err
		}
		line.planned(r, line.Limit)
		line.bill(y.Serve(&r.Plan, mean), l.Tokens)
		cluster := l.shape.Cluster(l.conditions, false, false)
		cluster.CPU.Rate *= a.cluster
		machine := cluster.Serve(y, mean)
		line.ClusterRatio, line.LambdaRatio, line.SpeedRatio = line.Cost/machine.Cost, line.Cost/lambda.Cost, lambda.Seconds/line.Latency
		l.add(line)
	}
	return nil
}

// meanRows are the rows that come, in the mean of test batches.
func (l *batchLab) meanRows() [][]float64 {
	mean := make([][]float64, l.system.Layers)
	for i := range mean {
		mean[i] = make([]float64, l.system.Experts)
		for _, b := range l.test {
			for e, d := range b.Real[i] {
				mean[i][e] += d / float64(len(l.test))
			}
		}
	}
	return mean
}
