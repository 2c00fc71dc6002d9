package bench

import "github.com/switchyard/switchyard/pkg/process/gpus"

// energy is what the GPUs of a pipeline take for tokens. It is all that they
// take, for whoever computes there, and while they wait.
type energy struct {
	joules  float64
	tokens  int
	unknown bool
}

// count adds a turn of so many tokens by what the GPU's counter said before and after.
func (e *energy) count(before, after reading, tokens int) {
	if !before.says || !after.says || after.joules < before.joules {
		e.unknown = true
		return
	}
	e.joules += after.joules - before.joules
	e.tokens += tokens
}

func (e *energy) perToken() float64 {
	if e.unknown || e.tokens == 0 {
		return 0
	}
	return e.joules / float64(e.tokens)
}

// reading is of the GPU's counter, if it has one.
type reading struct {
	joules float64
	says   bool
}

// energy adds up the counters of all GPUs; what is on one GPU shares its watch.
func (s *pipelineSide) energy() (sum reading) {
	seen := map[*gpus.Watch]bool{}
	of := &s.cluster.Settings.Services
	for _, gpu := range []*gpus.GPU{of.Expert.GPU, of.Attention.GPU, of.Gate.GPU} {
		if gpu == nil || seen[gpu.Watch] {
			continue
		}
		if gpu.Watch == nil {
			return reading{}
		}
		seen[gpu.Watch] = true
		joules, err := gpu.Watch.Energy()
		if err != nil {
			return reading{}
		}
		sum = reading{sum.joules + joules, true}
	}
	return sum
}

func (s *pipelineSide) devices() Names { return namesOf(s.cluster.Settings.Services) }
