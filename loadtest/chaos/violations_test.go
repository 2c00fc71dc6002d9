package chaos

import (
	"fmt"
	"strings"
	"time"
)

// violations tells the first of each kind of each request, and how many more there
// are: a changed token changes all that follow.
func (r *Run) violations() string {
	type kind struct{ request, what string }
	count := map[kind]int{}
	for _, v := range r.Load.Violations {
		count[kind{v.Request, v.What}]++
	}
	var b strings.Builder
	for _, v := range r.Load.Violations {
		n := count[kind{v.Request, v.What}]
		if n == 0 {
			continue // it was told with the first one
		}
		count[kind{v.Request, v.What}] = 0
		fmt.Fprintf(&b, "%v %s: %s: %s", v.At.Round(time.Millisecond), v.Request, v.What, v.Detail)
		if n > 1 {
			fmt.Fprintf(&b, " (and %d more)", n-1)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
