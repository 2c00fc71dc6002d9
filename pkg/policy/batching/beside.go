package batching

// beside is what steps take that have rows of answers and of prompts, so that those of prompts can be
// so few that who reads the answers hardly waits for them.
type beside struct {
	each   cost // a prompt's row, beside answers
	newest int  // prompts' rows of the newest such step
	run    int  // of such steps, since one without rows of prompts
}

const (
	// mostRun is after how many steps with both one has no rows of prompts, so that it stays known
	// what those take.
	mostRun = 16
	// worst is how many times as long as without prompts' rows a step counts at most.
	worst = 16
)

// rows is how many of prompts may go beside those of answers, which take so many seconds alone (0:
// nobody knows): as many as lengthen the step by that part of it, at most twice as many as the time
// before, and at least so many.
func (b *beside) rows(alone, part float64, least int) int {
	if b.run >= mostRun {
		return 0
	}
	n := 2 * b.newest
	if each := b.each.each(0); each > 0 {
		n = min(n, int(part*alone/each))
	}
	return max(least, n)
}

// Alone takes in that there was a step without rows of prompts.
func (p *Pace) Alone() { p.beside.run = 0 }

// Beside takes in what a step took that had rows of prompts beside those of answers, which take so
// many seconds alone (0: nobody knows).
func (p *Pace) Beside(prompts int, seconds, alone float64) {
	p.beside.newest = prompts
	p.beside.run++
	if alone > 0 {
		p.beside.each.observe(prompts, min(max(0, seconds-alone), worst*alone))
	}
}
