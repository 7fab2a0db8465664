package dialect

// all are the dialects. The order is that in which the first frame of a stream
// is compared with them; no frame is certain for two.
var all = []*Dialect{
	openAIChat, openAICompletions, openAIResponses, openAIAssistants, anthropicMessages,
	gemini, interactions, cohere, ollama, aiUI, aiData, agUI, assistantTransport, mastra,
	langGraph, langServe, letta, dify, fastGPT, flowise, n8n, replicate, mcp, a2a, generic,
}

// Lookup returns the dialect of a name.
func Lookup(name string) (*Dialect, bool) {
	for _, d := range all {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}

// Names are the names of the dialects.
func Names() []string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name
	}
	return names
}

// ResumePaths are the templates of every dialect, each once; see
// [Dialect].Resume.
func ResumePaths() []string {
	var templates []string
	seen := map[string]bool{}
	for _, d := range all {
		for _, t := range d.Resume {
			if !seen[t] {
				seen[t] = true
				templates = append(templates, t)
			}
		}
	}
	return templates
}
