"""The experiments of the papers that the local engine is built on, done by the engine itself."""
