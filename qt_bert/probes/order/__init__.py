"""The study of word order in parts: disturbed texts, scores of heads, sensitivity, claims, figures."""
