package bench

// energy is what the GPU of a pipeline's hosts takes for tokens. It is all that the GPU
// takes, for whoever computes there, and while it waits.
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

// perToken is 0 where it is not known, as without a GPU.
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

func (s *pipelineSide) energy() reading {
	gpu := s.cluster.Settings.Services.Expert.GPU
	if gpu == nil || gpu.Watch == nil {
		return reading{}
	}
	joules, err := gpu.Watch.Energy()
	return reading{joules, err == nil}
}

// device is what computes the pipeline's experts.
func (s *pipelineSide) device() string {
	if gpu := s.cluster.Settings.Services.Expert.GPU; gpu != nil {
		return "cuda:" + gpu.Info.Name
	}
	return "cpu"
}
