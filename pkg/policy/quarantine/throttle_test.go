package quarantine

import (
	"strings"
	"testing"
)

// What a device says each second, + slowed and - not, and what follows: A avoided.
func TestThrottle(t *testing.T) {
	for _, tt := range []struct{ name, said, want string }{
		{"never", "----------", "          "},
		{"a moment", "---++++++-----------", strings.Repeat(" ", 20)},
		{"ten seconds", "++++++++++++", "         AAA"},
		{"now and then", strings.Repeat("+-", 20), strings.Repeat(" ", 40)},
		{"most of the time", strings.Repeat("++++-", 6), strings.Repeat(" ", 17) + strings.Repeat("A", 13)},
		{"until it has cooled", "++++++++++" + strings.Repeat("-", 17), strings.Repeat(" ", 9) + strings.Repeat("A", 15) + "   "},
		{"slowed again while it cools", "++++++++++----------+----------", strings.Repeat(" ", 9) + strings.Repeat("A", 19) + "   "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var now Throttle
			var got strings.Builder
			for _, said := range tt.said {
				now = now.After(1, said == '+')
				got.WriteString(map[bool]string{true: "A", false: " "}[now.Avoid])
			}
			if got.String() != tt.want {
				t.Errorf("after\n%q it is\n%q, want\n%q", tt.said, got.String(), tt.want)
			}
		})
	}
	if got := (Throttle{}).After(3600, true); got.Avoid {
		t.Errorf("one look after an hour: %+v", got)
	}
	if got := (Throttle{Share: 1, Avoid: true}).After(-1, false); got.Share != 1 {
		t.Errorf("a look from before the last one: %+v", got)
	}
}
