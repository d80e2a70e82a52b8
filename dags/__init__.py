"""Airflow's DAGs. Set `dags_folder` to this folder, or import them in a DAG file of your own."""
