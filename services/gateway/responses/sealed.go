package responses

import (
	"encoding/base64"
	"strings"
)

// sealedAs begins what this server tells as encrypted_content. Clients that keep nothing of thoughts
// but that send it back: so thoughts are in the next prompt, as they are with clients that send
// the text. It hides nothing, as the text is told beside it.
const sealedAs = "thoughts."

func sealed(thoughts string) string {
	return sealedAs + base64.RawURLEncoding.EncodeToString([]byte(thoughts))
}

// opened returns the thoughts in what was sealed here; what others sealed has none.
func opened(text string) string {
	rest, ours := strings.CutPrefix(text, sealedAs)
	thoughts, err := base64.RawURLEncoding.DecodeString(rest)
	if !ours || err != nil {
		return ""
	}
	return string(thoughts)
}
