"""What would change a prediction: rules that propose a change, each evaluated again from as far back as the change reaches."""
