package testkit

import (
	"strconv"
	"strings"
)

// infoText finds "name:value" in what INFO says.
func infoText(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

func infoNumber(info, name string) int {
	n, err := strconv.Atoi(infoText(info, name))
	if err != nil {
		return 0
	}
	return n
}
